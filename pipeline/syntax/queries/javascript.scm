; A capture other than @name, @second and @prefix is the kind of the symbol; of two patterns that
; match one node the later wins.

(function_declaration name: (_) @name) @function
(generator_function_declaration name: (_) @name) @function

(class_declaration name: (_) @name) @class
(variable_declarator name: (identifier) @name value: (class)) @class
(assignment_expression right: (class name: (_) @name)) @class

(method_definition name: (_) @name) @method
(field_definition property: (_) @name value: [(arrow_function) (function_expression)]) @method

(variable_declarator
  name: (identifier) @name
  value: [(arrow_function) (function_expression) (generator_function)]) @function

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
