; A capture other than @name is the kind of the symbol. Annotations are part of their node.

(class_declaration name: (_) @name) @class
(interface_declaration name: (_) @name) @interface
(annotation_type_declaration name: (_) @name) @interface
(record_declaration name: (_) @name) @record
(enum_declaration name: (_) @name) @enum

(method_declaration name: (_) @name) @method
(constructor_declaration name: (_) @name) @method
(compact_constructor_declaration name: (_) @name) @method

; What stands before a definition belongs to it.
[(line_comment) (block_comment)] @prefix
