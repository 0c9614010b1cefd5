; Patterns of JavaScript, TypeScript and TSX; those of the language follow in its own file.
; A capture other than @name, @second and @prefix is the kind of the symbol. Of two patterns that match one node the
; later wins.

(function_declaration name: (_) @name) @function
(generator_function_declaration name: (_) @name) @function

(class_declaration name: (_) @name) @class
(variable_declarator name: (identifier) @name value: (class)) @class

(method_definition name: (_) @name) @method

(variable_declarator
  name: (identifier) @name
  value: [
    (arrow_function)
    (function_expression)
    (generator_function)
    (parenthesized_expression . [(arrow_function) (function_expression)] .)
  ]) @function

; `app.use = function use(fn) {}` is how many libraries define their functions. @second is the name where @name is
; `exports`: `module.exports = function create() {}`.
([
  (assignment_expression
    left: [
      (identifier) @name
      (member_expression property: (_) @name)
      (subscript_expression index: (string) @name)
    ]
    right: [
      (arrow_function)
      (function_expression name: (_)? @second)
      (generator_function name: (_)? @second)
      (parenthesized_expression . [(arrow_function) (function_expression)] .)
    ])
  (augmented_assignment_expression
    left: [(identifier) @name (member_expression property: (_) @name)]
    right: [
      (arrow_function)
      (function_expression name: (_)? @second)
      (generator_function name: (_)? @second)
      (parenthesized_expression . [(arrow_function) (function_expression)] .)
    ])
]) @function

(assignment_expression
  left: [
    (identifier) @name
    (member_expression property: (_) @name)
    (subscript_expression index: (string) @name)
  ]
  right: (class name: (_)? @second)) @class

; Properties of object literals: `{ name: function () {}, "other-name": () => {}, [key]: class {} }`.
(pair
  key: (_) @name
  value: [
    (arrow_function)
    (function_expression)
    (generator_function)
    (parenthesized_expression . [(arrow_function) (function_expression)] .)
  ]) @method
(pair key: (_) @name value: (class)) @class

; Decorators and comments before a definition belong to it.
[(decorator) (comment)] @prefix
