; A capture other than @name, @second and @prefix is the kind of the symbol; of two patterns that
; match one node the later wins. Namespaces and modules are no symbols, what they hold is.

(function_declaration name: (_) @name) @function
(generator_function_declaration name: (_) @name) @function
(function_signature name: (_) @name) @function

(class_declaration name: (_) @name) @class
(abstract_class_declaration name: (_) @name) @class
(variable_declarator name: (identifier) @name value: (class)) @class
(assignment_expression right: (class name: (_) @name)) @class

(method_definition name: (_) @name) @method
(class_body (method_signature name: (_) @name) @method)
(abstract_method_signature name: (_) @name) @method
(public_field_definition name: (_) @name value: [(arrow_function) (function_expression)]) @method

(interface_declaration name: (_) @name) @interface
(type_alias_declaration name: (_) @name) @type_alias
(enum_declaration name: (_) @name) @enum

(variable_declarator
  name: (identifier) @name
  value: [(arrow_function) (function_expression) (generator_function)]) @function

; `const f = (() => {}) as T` and `satisfies T` say its type and are the function itself.
(variable_declarator
  name: (identifier) @name
  value: [
    (as_expression . (parenthesized_expression . [(arrow_function) (function_expression)]))
    (satisfies_expression . (parenthesized_expression . [(arrow_function) (function_expression)]))
    (as_expression . (function_expression))
    (satisfies_expression . (function_expression))
  ]) @function

; `app.use = function use(fn) {}` is how whole libraries define their functions. The @second
; name counts where the first is no name: `module.exports = function create() {}`.
(assignment_expression
  left: [(identifier) @name (member_expression property: (_) @name)]
  right: [
    (arrow_function)
    (function_expression name: (_)? @second)
    (generator_function name: (_)? @second)
  ]) @function

; What stands before a definition belongs to it.
[(decorator) (comment)] @prefix
