; Class members of JavaScript; the other patterns are in ecmascript.scm.
(field_definition property: (_) @name value: [(arrow_function) (function_expression) (generator_function)]) @method
(field_definition property: (_) @name value: (class)) @class
