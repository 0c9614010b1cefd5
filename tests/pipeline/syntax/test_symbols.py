"""Symbols of files, for every language with a grammar, and outlines of invalid files."""

from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.file_classification import LANGUAGES_WITH_GRAMMAR
from pipeline.syntax.grammars import load_grammar
from pipeline.syntax.outline import Outline, Symbol, parse_outline
from pipeline.syntax.symbols import MAX_NESTING, find_definitions
from pipeline.syntax.trees import MAX_LINE_BYTES, MAX_PARSED_BYTES, parse_version


def parse_source(grammar: str, source: str) -> Outline:
    """Return the symbols and chunks of a source, without its common indentation."""
    return parse_outline(dedent(source).encode(), load_grammar(grammar))


def list_symbols(grammar: str, source: str) -> list[str]:
    """Return each symbol as `kind parent.name`."""
    symbols = [entry.symbol for entry in parse_source(grammar, source).symbols]
    return [f"{s.kind} {s.parent}.{s.name}".replace(" .", " ") for s in symbols]


def get_symbol(grammar: str, source: str, name: str) -> Symbol:
    """Return the only symbol of this name."""
    [symbol] = [entry.symbol for entry in parse_source(grammar, source).symbols if entry.symbol.name == name]
    return symbol


def test_python() -> None:
    """A function inside a function is no symbol; one in an `if` or `try` is."""
    symbols = list_symbols(
        "python",
        """
        class Store(Base):
            class Inner:
                pass

            @property
            async def path(self): ...

            if True:
                def guarded(self): ...

        try:
            def top():
                def local(): ...
                class Local:
                    def method(self): ...
        except ImportError:
            top = lambda: None
        """,
    )
    assert symbols == [
        "class Store",
        "class Store.Inner",
        "method Store.path",
        "method Store.guarded",
        "function top",
        "class top.Local",
        "method top.Local.method",
    ]


def test_rust() -> None:
    """The parent of a method is its impl or trait; modules, macros and aliases are no symbols."""
    symbols = list_symbols(
        "rust",
        """
        pub struct Map<K> { keys: Vec<K> }
        enum State { Open, Closed }
        trait Visit { fn enter(&self); fn leave(&self) {} }
        impl<K: Hash> fmt::Display for Map<K> { fn fmt(&self) { fn inner() {} } }
        impl<K> Map<K> { pub async fn get(&self) {} }
        impl Visit for &mut State {}
        mod nested { pub fn deep() {} }
        macro_rules! skip { () => {} }
        type Alias = Map<u8>;
        """,
    )
    assert symbols == [
        "struct Map",
        "enum State",
        "trait Visit",
        "method Visit.enter",
        "method Visit.leave",
        "impl Display for Map",
        "method Display for Map.fmt",
        "function Display for Map.fmt.inner",
        "impl Map",
        "method Map.get",
        "impl Visit for State",
        "function deep",
    ]


def test_java() -> None:
    """Constructors are methods, including compact ones of records; annotation types are interfaces."""
    symbols = list_symbols(
        "java",
        """
        public sealed class Shape permits Circle {
            Shape() {}
            public int area() { return 1; }
            interface Scaled { void scale(); }
            record Point(int x) { Point { } int norm() { return x; } }
            enum Unit { CM { void one() {} }; void all() {} }
            @interface Marked { int value(); }
            int field = 1;
        }
        """,
    )
    assert symbols == [
        "class Shape",
        "method Shape.Shape",
        "method Shape.area",
        "interface Shape.Scaled",
        "method Shape.Scaled.scale",
        "record Shape.Point",
        "method Shape.Point.Point",
        "method Shape.Point.norm",
        "enum Shape.Unit",
        "method Shape.Unit.one",
        "method Shape.Unit.all",
        "interface Shape.Marked",
    ]


def test_kotlin() -> None:
    """Companion objects have their own kind; local functions are no symbols."""
    symbols = list_symbols(
        "kotlin",
        """
        sealed class Shape {
            companion object { fun of() = 1 }
            companion object Named
            fun area(): Int {
                fun local() {}
                return 1
            }
        }
        sealed interface Scaled
        fun interface Action {
            fun run()
        }
        data class Point(val x: Int)
        data object Origin
        object Registry : Scaled { fun all() = 1 }
        enum class Unit { CM, M; fun one() = 1 }
        fun <T> List<T>.second(): T = this[1]
        val listener = object : Action { override fun run() {} }
        """,
    )
    assert symbols == [
        "class Shape",
        "companion_object Shape.Companion",
        "method Shape.Companion.of",
        "companion_object Shape.Named",
        "method Shape.area",
        "interface Scaled",
        "interface Action",
        "method Action.run",
        "data_class Point",
        "object Origin",
        "object Registry",
        "method Registry.all",
        "class Unit",
        "method Unit.one",
        "function second",
        "method run",
    ]


TYPESCRIPT = """
    export function plain(): void {}
    function over(a: string): void;
    function over(a: any) {}
    export abstract class Shape { abstract area(): number; scale() {} bound = () => 1 }
    export const arrow = async (x: number) => x
    const one = () => 1, two = function () {}
    interface Scaled { scale(): void }
    export type Alias = string
    export const enum Unit { CM }
    namespace Inside { export function deep() {} }
    declare module "other" { }
    const table = { method() {}, key: 1 }
    const plainValue = 1
"""


def test_kotlin_syntax_that_the_grammar_lacks() -> None:
    """Symbols are found around syntax that the grammar does not know: bodies on one line and `..<`."""
    source = """
        interface I { val x: Int; fun a() }
        class A {
            companion object { val Z = 1 }
            fun after() {
                for (i in 1..<10) println(i)
            }
        }
        fun top() {}
        """
    assert list_symbols("kotlin", source) == [
        "interface I",
        "method I.a",
        "class A",
        "companion_object A.Companion",
        "method A.after",
        "function top",
    ]
    version = parse_version(dedent(source).encode(), load_grammar("kotlin"))
    assert version is not None
    assert [
        definition.name for definition in find_definitions(version) if not definition.has_syntax_error
    ] == [
        "a",
        "top",
    ]


@pytest.mark.parametrize("grammar", ["typescript", "tsx"])
def test_arrow_functions_with_a_type_assertion(grammar: str) -> None:
    """A variable is a function if its value is a function before `as` or `satisfies`, not a call with a function."""
    source = """
        const one = (() => {}) as Handler;
        export const two = (async (x) => x) satisfies Handler;
        const three = function () {} as Handler;
        const four = useMemo(() => {}) as Handler, five = (six) as Handler;
        """
    assert list_symbols(grammar, source) == ["function one", "function two", "function three"]
    assert get_symbol(grammar, source, "one").source_text == "const one = (() => {}) as Handler;"


@pytest.mark.parametrize("grammar", ["typescript", "tsx"])
def test_typescript(grammar: str) -> None:
    """Namespaces and modules are no symbols, but their contents are."""
    assert list_symbols(grammar, TYPESCRIPT) == [
        "function plain",
        "function over",
        "function over",
        "class Shape",
        "method Shape.area",
        "method Shape.scale",
        "method Shape.bound",
        "function arrow",
        "function one",
        "function two",
        "interface Scaled",
        "type_alias Alias",
        "enum Unit",
        "function deep",
        "method method",
    ]


def test_javascript() -> None:
    """A function assigned to a variable or property is a function; an anonymous callback is no symbol."""
    symbols = list_symbols(
        "javascript",
        """
        async function* pages() {}
        class Router { constructor() {} #own() {} handle = () => 1 }
        const arrow = () => 1
        var old = function () {}
        const Made = class { made() {} }
        app.use = function use(fn) {}
        Router.prototype.all = function () {}
        module.exports = function create() {}
        export default class Main {}
        it('passes', () => {})
        """,
    )
    assert symbols == [
        "function pages",
        "class Router",
        "method Router.constructor",
        "method Router.#own",
        "method Router.handle",
        "function arrow",
        "function old",
        "class Made",
        "method Made.made",
        "function use",
        "function all",
        "function create",
        "class Main",
    ]


@pytest.mark.parametrize("grammar", ["javascript", "typescript", "tsx"])
def test_functions_and_classes_named_by_a_property_or_assignment(grammar: str) -> None:
    """A function or class value is a symbol under the name of its property or of the variable it is assigned to."""
    symbols = list_symbols(
        grammar,
        """
        exports.app = {
          name: function () {},
          other: () => {},
          [key]: async function () {},
          'quoted-name': function* () {},
          Inner: class {},
          short() {},
          value: call(() => {}),
        }
        exports['assigned'] = function () {}
        cache.get ||= () => 1
        first = second = function () {}
        wrapped = (function () {})
        shapes.Circle = class {}
        module.exports = class Square {}
        class Fields { pages = function* () {}; Nested = class {}; 'quoted' = () => 1 }
        """,
    )
    assert symbols == [
        "method name",
        "method other",
        "method [key]",
        "method quoted-name",
        "class Inner",
        "method short",
        "function assigned",
        "function get",
        "function first",
        "function second",
        "function wrapped",
        "class Circle",
        "class Square",
        "class Fields",
        "method Fields.pages",
        "class Fields.Nested",
        "method Fields.quoted",
    ]


@pytest.mark.parametrize("grammar", ["javascript", "typescript", "tsx"])
def test_chained_assignment(grammar: str) -> None:
    """Each name of a chained assignment is a symbol with the same lines. `exports` is named like the function."""
    source = """
        req.one =
        req.two = // alias
        req['three'] = function () {
          function local() {}
        }
        var app = module.exports = function create() {}
        exports = module.exports = class Main { run() {} }
        let a = 1, b = c = () => 1
        zero = none = call(() => 1)
        """
    assert list_symbols(grammar, source) == [
        "function one",
        "function two",
        "function three",
        "function three.local",
        "function app",
        "function create",
        "class Main",
        "method Main.run",
        "function b",
        "function c",
    ]
    assert get_symbol(grammar, source, "two").start_line == get_symbol(grammar, source, "one").start_line == 2


@pytest.mark.parametrize("grammar", ["javascript", "typescript", "tsx"])
def test_named_functions_that_are_arguments(grammar: str) -> None:
    """A named function or class is a symbol if it is an argument; an anonymous one is not."""
    symbols = list_symbols(
        grammar,
        """
        defineGetter(req, 'protocol', function protocol() {})
        defineGetter(req, 'fresh', function () {})
        const Button = memo(function BaseButton() {})
        new Worker(function* work() {})
        app.use(function first() { function local() {} }, () => {}, function second() {})
        define('box', class Box { open() {} })
        """,
    )
    assert symbols == [
        "property protocol",
        "property fresh",
        "function BaseButton",
        "function work",
        "function first",
        "function first.local",
        "function second",
        "class Box",
        "method Box.open",
    ]


@pytest.mark.parametrize("grammar", ["javascript", "typescript", "tsx"])
def test_properties_with_a_getter(grammar: str) -> None:
    """A call defines a property if its name is a literal. The symbol includes the value. Other calls define none."""
    symbols = list_symbols(
        grammar,
        """
        req.__defineGetter__('auth', function auth() { const local = () => 1 })
        Object.defineProperty(req, "host", { enumerable: true, get: function () {}, set(value) {} })
        Object.defineProperty(req, 'version', { value: 3 })
        Object.defineProperty(req, name, { value: function () {} })
        defineGetter(req, 'fresh', function () {})
        utils.defineLazy(req, 'stale', () => 1)
        defineGetter(req, 'path', function path() {})
        define(req, 'amd', function () {})
        undefineGetter(req, 'gone', function () {})
        defineGetter('key', name, function () {})
        app.component(req, 'name', { render() {} })
        router.get('path', function () {})
        """,
    )
    assert symbols == [
        "property auth",
        "function auth.local",
        "property host",
        "method value",
        "property fresh",
        "property stale",
        "property path",
        "method render",
    ]


@pytest.mark.parametrize(
    ("grammar", "source", "name"),
    [
        ("python", "@first\n@second(1)\ndef f():\n    pass", "f"),
        ("python", "@dataclass\nclass C:\n    pass", "C"),
        ("rust", "#[derive(Debug)] // why\n#[repr(C)]\nstruct S;", "S"),
        ("java", '@A\n@B("x")\nclass C { }', "C"),
        ("kotlin", '@A\n@B("x")\nclass C', "C"),
        ("typescript", "@A()\nexport class C {}", "C"),
        ("tsx", "@A()\n@B\nclass C {}", "C"),
        ("javascript", "@A\nclass C {}", "C"),
    ],
)
def test_source_text_includes_decorators(grammar: str, source: str, name: str) -> None:
    """A symbol starts with the first of its decorators, annotations or attributes."""
    symbol = get_symbol(grammar, f"\n{source}\n", name)
    assert (symbol.source_text, symbol.start_line) == (source, 2)
    assert symbol.end_line == 1 + len(source.split("\n"))


def test_decorators_of_methods() -> None:
    """Decorators that are siblings of a method in the tree belong to it, not to the previous member."""
    source = "class C {\n  one() {}\n  @a() // why\n  @b\n  two() {}\n}\n"
    assert get_symbol("typescript", source, "one").source_text == "one() {}"
    assert get_symbol("typescript", source, "two").source_text == "@a() // why\n  @b\n  two() {}"


def test_decorators_are_no_symbols() -> None:
    """A function inside a decorator is no symbol."""
    assert list_symbols("python", "@register(lambda: 1)\ndef f(): ...\n") == ["function f"]


@pytest.mark.parametrize(
    "source", [b"x = 1\n" * MAX_PARSED_BYTES, b"x = '" + b"a" * MAX_LINE_BYTES + b"'\n", b"(" * 15_000]
)
def test_unparsable_files(source: bytes) -> None:
    """A file that is too large, has too long lines or too many errors has an empty outline."""
    assert parse_outline(source, load_grammar("python")) == Outline((), ())


def test_nesting_is_limited() -> None:
    """Symbols that are nested deeper than the limit are omitted."""
    depth = MAX_NESTING * 2
    source = "function f() {\n" * depth + "}\n" * depth
    assert len(list_symbols("javascript", source)) == MAX_NESTING


@pytest.mark.parametrize("grammar", sorted(LANGUAGES_WITH_GRAMMAR | {"tsx"}))
@settings(max_examples=40)
@given(data=st.data())
def test_any_bytes_have_an_outline(grammar: str, data: st.DataObject) -> None:
    """For any content, symbols have lines of the file and a chunk, and chunks are in order."""
    snippets = st.sampled_from(
        [
            b"class A {",
            b"def f(self):\n  ",
            b"fn f() {",
            b"impl A for B {",
            b"@a\n",
            b"#[a]\n",
            b"}",
            b"\n",
            b"// c\n",
        ]
    )
    source = b"".join(data.draw(st.lists(st.binary(max_size=8) | snippets, max_size=30)))
    outline = parse_outline(source, load_grammar(grammar))
    lines = source.count(b"\n") + 1
    starts = [chunk.start_line for chunk in outline.chunks]
    assert starts == sorted(starts)
    for entry in outline.symbols:
        assert 1 <= entry.symbol.start_line <= entry.symbol.end_line <= lines
        assert entry.chunk_index < len(outline.chunks)
        assert entry.symbol.name
