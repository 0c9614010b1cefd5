"""The symbols of every language of the specification's table, with what it leaves out."""

from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.parse import Outline, Symbol, outline
from pipeline.syntax.grammars import load
from pipeline.syntax.languages import PARSED
from pipeline.syntax.symbols import NESTING_LIMIT, definitions
from pipeline.syntax.trees import LINE_BYTES, PARSED_BYTES, parsed


def outlined(grammar: str, source: str) -> Outline:
    return outline(dedent(source).encode(), load(grammar))


def symbols(grammar: str, source: str) -> list[str]:
    """Each symbol as `kind parent.name`."""
    found = [placed.symbol for placed in outlined(grammar, source).symbols]
    return [f"{s.kind} {s.parent}.{s.name}".replace(" .", " ") for s in found]


def symbol(grammar: str, source: str, name: str) -> Symbol:
    [found] = [placed.symbol for placed in outlined(grammar, source).symbols if placed.symbol.name == name]
    return found


def test_python_has_classes_methods_and_top_level_functions() -> None:
    """A function inside a function is its detail; one under an `if` or `try` is not."""
    found = symbols(
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
    assert found == [
        "class Store",
        "class Store.Inner",
        "method Store.path",
        "method Store.guarded",
        "function top",
        "class top.Local",
        "method top.Local.method",
    ]


def test_rust_has_functions_methods_structs_enums_traits_and_impls() -> None:
    """Methods name their impl; modules, macros and aliases are no symbols."""
    found = symbols(
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
    assert found == [
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


def test_java_has_classes_interfaces_records_enums_and_methods() -> None:
    """Sealed classes are classes; constructors, the compact ones of records too, are methods."""
    found = symbols(
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
    assert found == [
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


def test_kotlin_has_classes_data_classes_objects_interfaces_and_functions() -> None:
    """Companion objects have a kind of their own; local functions are left out."""
    found = symbols(
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
    assert found == [
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


def test_kotlin_that_the_grammar_does_not_know_keeps_its_symbols() -> None:
    """Bodies on one line and `..<` are errors to the pinned grammar; all around them is found nevertheless."""
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
    assert symbols("kotlin", source) == [
        "interface I",
        "method I.a",
        "class A",
        "companion_object A.Companion",
        "method A.after",
        "function top",
    ]
    version = parsed(dedent(source).encode(), load("kotlin"))
    assert version is not None
    assert [found.name for found in definitions(version) if found.exact] == ["a", "top"]


@pytest.mark.parametrize("grammar", ["typescript", "tsx"])
def test_an_arrow_with_its_type_said_behind_it_is_a_function(grammar: str) -> None:
    """`as` and `satisfies` say what it is; a call that is given a function is not one."""
    source = """
        const one = (() => {}) as Handler;
        export const two = (async (x) => x) satisfies Handler;
        const three = function () {} as Handler;
        const four = useMemo(() => {}) as Handler, five = (six) as Handler;
        """
    assert symbols(grammar, source) == ["function one", "function two", "function three"]
    assert symbol(grammar, source, "one").source_text == "const one = (() => {}) as Handler;"


@pytest.mark.parametrize("grammar", ["typescript", "tsx"])
def test_typescript_has_functions_classes_methods_arrows_interfaces_aliases_and_enums(grammar: str) -> None:
    """Namespaces and modules are no symbols; what they hold is."""
    assert symbols(grammar, TYPESCRIPT) == [
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


def test_javascript_has_functions_classes_methods_and_arrow_consts() -> None:
    """A function assigned to a property is a function, the way libraries of prototypes define them."""
    found = symbols(
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
    assert found == [
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
def test_decorators_and_annotations_are_verbatim_in_the_source(grammar: str, source: str, name: str) -> None:
    """A symbol begins with the first of its decorators, annotations or attributes."""
    found = symbol(grammar, f"\n{source}\n", name)
    assert (found.source_text, found.start_line) == (source, 2)
    assert found.end_line == 1 + len(source.split("\n"))


def test_a_members_decorators_are_its_own() -> None:
    """Decorators that stand beside a method in the tree belong to it, not to the member before."""
    source = "class C {\n  one() {}\n  @a() // why\n  @b\n  two() {}\n}\n"
    assert symbol("typescript", source, "one").source_text == "one() {}"
    assert symbol("typescript", source, "two").source_text == "@a() // why\n  @b\n  two() {}"


def test_no_decorator_is_a_symbol() -> None:
    """Decorators with functions in them name nothing of their own."""
    assert symbols("python", "@register(lambda: 1)\ndef f(): ...\n") == ["function f"]


FUNCTION = "def {name}():\n    return '{filler}'\n"


def test_siblings_are_merged_while_they_stay_under_the_budget() -> None:
    """Three functions of 219 tokens make a chunk of two and a chunk of one; siblings follow."""
    source = "".join(FUNCTION.format(name=name, filler="x" * 850) for name in ("one", "two", "three"))
    found = outlined("python", source)
    assert [(c.start_line, c.end_line, c.tokens) for c in found.chunks] == [(1, 4, 437), (5, 6, 219)]
    assert [(p.symbol.name, p.chunk, p.siblings) for p in found.symbols] == [
        ("one", 0, ("two",)),
        ("two", 0, ("one",)),
        ("three", 1, ()),
    ]


def test_a_node_over_budget_is_a_chunk_alone() -> None:
    """A function of 600 tokens joins neither the one before nor the one after."""
    fillers = {"one": "x", "two": "x" * 2400, "three": "x"}
    source = "".join(FUNCTION.format(name=name, filler=filler) for name, filler in fillers.items())
    assert [(c.start_line, c.end_line) for c in outlined("python", source).chunks] == [(1, 2), (3, 4), (5, 6)]


def test_a_class_over_budget_is_opened() -> None:
    """Its methods are merged among themselves, its head with the first of them."""
    methods = "".join(f"    def m{number}(self):\n        return '{'x' * 850}'\n" for number in range(4))
    found = outlined("python", f"def before(): ...\nclass C:\n{methods}def after(): ...\n")
    assert [(p.symbol.name, p.chunk, p.siblings) for p in found.symbols] == [
        ("before", 0, ()),
        ("C", 1, ("m0", "m1")),
        ("m0", 1, ("C", "m1")),
        ("m1", 1, ("C", "m0")),
        ("m2", 2, ("m3",)),
        ("m3", 2, ("m2",)),
        ("after", 3, ()),
    ]


def test_the_budget_counts_characters_not_bytes() -> None:
    """1,212 characters, most of three bytes, are 303 tokens and leave room for a neighbour."""
    source = f"a = '{'線' * 1200}'\nb = 1\n"
    assert [chunk.tokens for chunk in outlined("python", source).chunks] == [303]


def test_an_attribute_stays_with_what_it_is_of() -> None:
    """A chunk never ends between a Rust attribute and its function."""
    filler = f'fn one() {{ "{"x" * 1900}" }}\n'
    found = outlined("rust", f'{filler}#[test]\nfn two() {{ "{"y" * 500}" }}\n')
    assert [(c.start_line, c.end_line) for c in found.chunks] == [(1, 1), (2, 3)]


@pytest.mark.parametrize(
    "source", [b"x = 1\n" * PARSED_BYTES, b"x = '" + b"a" * LINE_BYTES + b"'\n", b"(" * 15_000]
)
def test_what_nobody_wrote_by_hand_is_not_parsed(source: bytes) -> None:
    """Too large, too wide, or a heap of tokens: such a file has no outline, and costs no minutes."""
    assert outline(source, load("python")) == Outline((), ())


def test_a_tower_of_functions_is_cut() -> None:
    """Symbols deeper than the limit are left out, or their sources would grow with its square."""
    depth = NESTING_LIMIT * 2
    source = "function f() {\n" * depth + "}\n" * depth
    assert len(symbols("javascript", source)) == NESTING_LIMIT


@pytest.mark.parametrize("grammar", sorted(PARSED | {"tsx"}))
@settings(max_examples=40)
@given(data=st.data())
def test_any_bytes_have_an_outline(grammar: str, data: st.DataObject) -> None:
    """Whatever a file holds: its symbols lie in it, its chunks are in order, every symbol in one."""
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
    found = outline(source, load(grammar))
    lines = source.count(b"\n") + 1
    starts = [chunk.start_line for chunk in found.chunks]
    assert starts == sorted(starts)
    for placed in found.symbols:
        assert 1 <= placed.symbol.start_line <= placed.symbol.end_line <= lines
        assert placed.chunk < len(found.chunks)
        assert placed.symbol.name
