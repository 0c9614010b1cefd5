; Syntax that only TypeScript and TSX have; the other patterns are in ecmascript.scm. Namespaces and modules are not
; symbols, their members are.

(function_signature name: (_) @name) @function
(abstract_class_declaration name: (_) @name) @class
(class_body (method_signature name: (_) @name) @method)
(abstract_method_signature name: (_) @name) @method
(interface_declaration name: (_) @name) @interface
(type_alias_declaration name: (_) @name) @type_alias
(enum_declaration name: (_) @name) @enum

(public_field_definition name: (_) @name value: (class)) @class
(public_field_definition
  name: (_) @name
  value: [
    (arrow_function)
    (function_expression)
    (generator_function)
    (parenthesized_expression . [(arrow_function) (function_expression)] .)
  ]) @method

; `const f = (() => {}) as T` and `satisfies T` state the type of the function.
(variable_declarator
  name: (identifier) @name
  value: [
    (as_expression . [(function_expression) (parenthesized_expression . [(arrow_function) (function_expression)])])
    (satisfies_expression . [(function_expression) (parenthesized_expression . [(arrow_function) (function_expression)])])
  ]) @function
(public_field_definition
  name: (_) @name
  value: [
    (as_expression . [(function_expression) (parenthesized_expression . [(arrow_function) (function_expression)])])
    (satisfies_expression . [(function_expression) (parenthesized_expression . [(arrow_function) (function_expression)])])
  ]) @method
(pair
  key: (_) @name
  value: [
    (as_expression . [(function_expression) (parenthesized_expression . [(arrow_function) (function_expression)])])
    (satisfies_expression . [(function_expression) (parenthesized_expression . [(arrow_function) (function_expression)])])
  ]) @method
