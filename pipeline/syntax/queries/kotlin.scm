; A capture other than @name is the kind of the symbol; of two patterns that match one node
; the later wins. Annotations are part of their node. Member functions become methods and
; local functions are left out: `pipeline.syntax.symbols` decides both from the nesting.

(class_declaration (type_identifier) @name) @class
(class_declaration (modifiers (class_modifier "data")) (type_identifier) @name) @data_class
(class_declaration "interface" (type_identifier) @name) @interface

(object_declaration (type_identifier) @name) @object

; Without a name of its own it is called `Companion`, as the language does.
(companion_object (type_identifier)? @name) @companion_object

(function_declaration (simple_identifier) @name) @function
(object_literal (class_body (function_declaration (simple_identifier) @name) @method))

; What stands before a definition belongs to it.
[(line_comment) (multiline_comment)] @prefix
