; Patterns of JavaScript, TypeScript and TSX; those of the language follow in its own file.
; A capture other than @name, @second, @prefix, @chain and @argument is the kind of the symbol. Of two patterns that match
; one node the later wins.

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

; Each name of a chained assignment: `first = second = function () {}`. The kind is that of the value at its end.
(assignment_expression
  left: [
    (identifier) @name
    (member_expression property: (_) @name)
    (subscript_expression index: (string) @name)
  ]
  right: (assignment_expression)) @chain
(variable_declarator name: (identifier) @name value: (assignment_expression)) @chain

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

; Named functions and classes, which are symbols if they are arguments: `app.use("/", function home() {})`. A pattern of
; the arguments would take a third more time for all patterns.
[
  (function_expression name: (_) @name)
  (generator_function name: (_) @name)
  (class name: (_) @name)
] @argument

; `req.__defineGetter__("ip", function () {})`, `Object.defineProperty(req, "ip", { get() {} })` and the like with another
; function. @second is the called function, which `pipeline.syntax.symbols` checks.
(call_expression
  function: (member_expression property: (_) @second)
  arguments: (arguments . (string) @name . [(arrow_function) (function_expression)])) @property
(call_expression
  function: [(member_expression property: (_) @second) (identifier) @second]
  arguments: (arguments
    . (_) . (string) @name
    . [
      (arrow_function)
      (function_expression)
      (object [(method_definition) (pair value: [(arrow_function) (function_expression)])])
    ])) @property

; Decorators and comments before a definition belong to it.
[(decorator) (comment)] @prefix
