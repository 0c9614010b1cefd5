; A capture other than @name and @prefix is the kind of the symbol; of two patterns that
; match one node the later wins. Functions inside a class become methods, functions inside
; functions are left out: `pipeline.syntax.symbols` decides both from the nesting.

(function_definition name: (identifier) @name) @function

(class_definition name: (identifier) @name) @class

; What stands before a definition belongs to it.
[(decorator) (comment)] @prefix
