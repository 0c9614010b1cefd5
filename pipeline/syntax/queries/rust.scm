; A capture other than @name, @second and @prefix is the kind of the symbol.
; A function directly inside an impl or a trait becomes a method.

(function_item name: (_) @name) @function
(function_signature_item name: (_) @name) @function

(struct_item name: (_) @name) @struct
(enum_item name: (_) @name) @enum
(trait_item name: (_) @name) @trait

; Named by its type; `impl Trait for Type`, with a @second name, is named "Trait for Type".
(impl_item trait: (_)? @second type: (_) @name) @impl

; What stands before a definition belongs to it.
[(attribute_item) (line_comment) (block_comment)] @prefix
