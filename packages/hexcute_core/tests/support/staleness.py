"""Edits of what a kernel depends on: two texts of a module `cfg`, and how the kernel uses it.

Each changes the number that the kernel multiplies by. The kernel's module imports `cfg` its own way
(`EXTRA`), computes the number by an expression, and may get a compile-time constant `C`.
"""

# ruff: noqa: E501  -- one edit a line
from typing import NamedTuple


class Edit(NamedTuple):
    name: str
    expr: str
    before: str
    after: str
    extra: str = "import cfg"
    const: str = "None"


def _pair(text: str) -> tuple[str, str]:
    """`text` with 2.0 and with 3.0 in place of `#`."""
    return text.replace("#", "2.0"), text.replace("#", "3.0")


S = _pair("S = #\n")
FUNCTION = _pair("def f(x=1.0):\n    return x * #\n")
DEFAULT = _pair("def f(x=#):\n    return x\n")
KEYWORD = _pair("def f(*, x=#):\n    return x\n")
CLASS = _pair("class A:\n    s = #\n    def m(self):\n        return self.s\n")
SLOTS = _pair("class A:\n    __slots__ = ('s',)\n    def __init__(self):\n        self.s = #\na = A()\n")
READS = (
    "class P:\n    @property\n    def s(self):\n        return G\n    @staticmethod\n    def t():\n"
    "        return G\n    @classmethod\n    def u(cls):\n        return G\n    def __call__(self):\n"
    "        return G\n    def __getitem__(self, i):\n        return G\n    def __getattr__(self, n):\n"
    "        return G\n    def __float__(self):\n        return G\np = P()\n"
)
PROPERTY = _pair("G = #\n" + READS)
INHERITED = _pair("class B:\n    def s(self):\n        return #\nclass A(B):\n    pass\na = A()\n")
META = _pair("class M(type):\n    s = #\nclass A(metaclass=M):\n    pass\n")
DATA = _pair(
    "from dataclasses import dataclass, field\n@dataclass(frozen=True)\nclass D:\n"
    "    s: float = field(default=#, repr=False, compare=False)\n"
)
DATA_METHOD = _pair(
    "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass D:\n"
    "    def s(self):\n        return #\n"
)
FACTORY = _pair(
    "from dataclasses import dataclass, field\n@dataclass\nclass D:\n"
    "    s: float = field(default_factory=lambda: #)\n"
)
ENUM = _pair("import enum\nclass E(enum.Enum):\n    A = #\n")
ENUM_PROPERTY = _pair(
    "import enum\nclass E(enum.Enum):\n    A = 1\n    @property\n    def s(self):\n        return #\n"
)
INT_ENUM = _pair(
    "import enum\nclass E(enum.IntEnum):\n    A = 1\n    def s(self):\n        return #\n"
)
TUPLE = _pair("from typing import NamedTuple\nclass T(NamedTuple):\n    s: float = #\nt = T()\n")
REPR = _pair("class K:\n    s = #\n    def __repr__(self):\n        return 'K()'\nk = K()\n")
EQUAL = _pair(
    "class K:\n    def __init__(self):\n        self.s = #\n    def __eq__(self, other):\n"
    "        return True\n    def __hash__(self):\n        return 0\nk = K()\n"
)
PARTIAL = _pair("import functools\ndef g(x):\n    return x\nf = functools.partial(g, #)\n")
CACHED = _pair("import functools\n@functools.lru_cache\ndef f():\n    return #\n")
WRAPPED = _pair(
    "import functools\ndef by(g):\n    @functools.wraps(g)\n    def w():\n        return # * g()\n"
    "    return w\n@by\ndef f():\n    return 1.0\n"
)
CLOSURE = _pair("def make(x):\n    def g():\n        return x\n    return g\nf = make(#)\n")
CELL = _pair("def make():\n    x = [#]\n    def g():\n        return x[0]\n    return g\nf = make()\n")
LAMBDA = _pair("f = lambda: #\n")
LAMBDAS = _pair("f, g = (lambda: #), (lambda: 7.0)\n")
NESTED = _pair("def f():\n    def inner():\n        return #\n    return inner()\n")
GENERATOR = _pair("def f():\n    return sum(x for x in (#, 1.0))\n")
DEEP = _pair("G = #\ndef a():\n    return G\ndef b():\n    return a()\ndef f():\n    return b()\n")
ARRAY = "import numpy as np\nT = np.full(2000, 2.0)\n"
TABLE = (ARRAY, ARRAY + "T[1000] = 5.0\n")
NUMPY = _pair("import numpy as np\nS = np.float32(#)\n")
ENVIRONMENT = _pair("import os\nos.environ['HEXCUTE_TEST_S'] = '#'\n")
SPACE = _pair("from types import SimpleNamespace\nN = SimpleNamespace(s=#)\n")
DOTTED = _pair("class A:\n    class B:\n        s = #\n")
SETATTR = _pair("class A:\n    pass\nsetattr(A, 's', #)\n")
ITERATED = _pair("class I:\n    def __iter__(self):\n        yield #\ni = I()\n")
CALLED = "def h():\n    return "

EDITS = [
    Edit("module attribute", "cfg.S", *S),
    Edit("imported name", "S", *S, "from cfg import S"),
    Edit("renamed import", "T", *S, "from cfg import S as T"),
    Edit("star import", "S", *S, "from cfg import *"),
    Edit("own global computed from it", "MINE", *S, "import cfg\nMINE = cfg.S * 1"),
    Edit("import inside a helper", "h()", *S, "def h():\n    import cfg\n    return cfg.S"),
    Edit("from-import inside a helper", "h()", *S, "def h():\n    from cfg import S\n    return S"),
    Edit("import by text", "h()", *S, "def h():\n    return __import__('cfg').S"),
    Edit("importlib", "h()", *S,
         "import importlib\ndef h():\n    return importlib.import_module('cfg').S"),
    Edit("local alias of a module", "h()", *S, "import cfg\ndef h():\n    c = cfg\n    return c.S"),
    Edit("getattr", "h()", *S, "import cfg\n" + CALLED + "getattr(cfg, 'S')"),
    Edit("getattr of a joined name", "h()", *S, "import cfg\n" + CALLED + "getattr(cfg, 's'.upper())"),
    Edit("vars", "h()", *S, "import cfg\n" + CALLED + "vars(cfg)['S']"),
    Edit("__dict__", "h()", *S, "import cfg\n" + CALLED + "cfg.__dict__['S']"),
    Edit("globals", "h()", *S, "from cfg import S\n" + CALLED + "globals()['S']"),
    Edit("globals of a joined name", "h()", *S, "from cfg import S\n" + CALLED + "globals()['s'.upper()]"),
    Edit("eval", "h()", *S, "import cfg\n" + CALLED + "eval('cfg.S')"),
    Edit("sys.modules", "h()", *S, "import cfg, sys\n" + CALLED + "sys.modules['cfg'].S"),
    Edit("attrgetter", "h()", *S, "import cfg, operator\n" + CALLED + "operator.attrgetter('S')(cfg)"),
    Edit("module passed to a helper", "h(cfg)", *S, "import cfg\ndef h(c):\n    return c.S"),
    Edit("module in a dict", "T['c'].S", *S, "import cfg\nT = {'c': cfg}"),
    Edit("module in an object", "N.c.S", *S,
         "import cfg\nfrom types import SimpleNamespace\nN = SimpleNamespace(c=cfg)"),
    Edit("module as a constant", "C.S", *S, const="kern.cfg"),
    Edit("number as a constant", "C", *S, const="kern.cfg.S"),
    Edit("default of the kernel's constant", "D", *S, "import cfg\nD = cfg.S"),
    Edit("function", "cfg.f()", *FUNCTION),
    Edit("imported function", "f()", *FUNCTION, "from cfg import f"),
    Edit("function as a constant", "C()", *FUNCTION, const="kern.cfg.f"),
    Edit("function in a list", "FS[0]()", *FUNCTION, "import cfg\nFS = [cfg.f]"),
    Edit("function's default", "cfg.f()", *DEFAULT),
    Edit("function's keyword default", "cfg.f()", *KEYWORD),
    Edit("function of a function of a global", "cfg.f()", *DEEP),
    Edit("nested function", "cfg.f()", *NESTED),
    Edit("generator", "cfg.f()", *GENERATOR),
    Edit("lambda", "cfg.f()", *LAMBDA),
    Edit("one lambda of a line", "cfg.f()", *LAMBDAS),
    Edit("partial", "cfg.f()", *PARTIAL),
    Edit("cached function", "cfg.f()", *CACHED),
    Edit("wrapper of a wrapped function", "cfg.f()", *WRAPPED),
    Edit("closure", "cfg.f()", *CLOSURE),
    Edit("list in a closure", "cfg.f()", *CELL),
    Edit("class attribute", "cfg.A.s", *CLASS),
    Edit("method", "cfg.A().m()", *CLASS),
    Edit("bound method", "M()", *CLASS, "import cfg\nM = cfg.A().m"),
    Edit("class as a constant", "C.s", *CLASS, const="kern.cfg.A"),
    Edit("class in a class", "cfg.A.B.s", *DOTTED),
    Edit("attribute set on a class", "cfg.A.s", *SETATTR),
    Edit("slot", "cfg.a.s", *SLOTS),
    Edit("inherited method", "cfg.a.s()", *INHERITED),
    Edit("metaclass", "cfg.A.s", *META),
    Edit("property of a global", "cfg.p.s", *PROPERTY),
    Edit("static method of a global", "cfg.P.t()", *PROPERTY),
    Edit("class method of a global", "cfg.P.u()", *PROPERTY),
    Edit("object that is called", "cfg.p()", *PROPERTY),
    Edit("object with items", "cfg.p[0]", *PROPERTY),
    Edit("object with attributes of its own making", "cfg.p.anything", *PROPERTY),
    Edit("object that is a number", "float(cfg.p)", *PROPERTY),
    Edit("object that is iterated", "sum(cfg.i)", *ITERATED),
    Edit("dataclass field that does not show", "C.s", *DATA, const="kern.cfg.D()"),
    Edit("dataclass method", "C.s()", *DATA_METHOD, const="kern.cfg.D()"),
    Edit("dataclass factory", "cfg.D().s", *FACTORY),
    Edit("enum", "cfg.E.A.value", *ENUM),
    Edit("enum property", "C.s", *ENUM_PROPERTY, const="kern.cfg.E.A"),
    Edit("method of an int enum", "cfg.E.A.s()", *INT_ENUM),
    Edit("named tuple", "cfg.t.s", *TUPLE),
    Edit("object whose repr stays", "C.s", *REPR, const="kern.cfg.k"),
    Edit("object equal to all", "C.s", *EQUAL, const="kern.cfg.k"),
    Edit("namespace", "cfg.N.s", *SPACE),
    Edit("numpy scalar", "float(cfg.S)", *NUMPY),
    Edit("one element of a large array", "float(cfg.T[1000])", *TABLE),
    Edit("array as a constant", "float(C[1000])", *TABLE, const="kern.cfg.T"),
]  # fmt: skip

# What Python reads outside the program: seen by a new process alone.
ELSEWHERE = [
    Edit("environment", "h()", *ENVIRONMENT,
         "import cfg, os\ndef h():\n    return float(os.environ['HEXCUTE_TEST_S'])"),
]  # fmt: skip

# Changed where they are, in one process.
CHANGES = [
    Edit("list item", "cfg.T[0]", "T = [2.0]", "cfg.T[0] = 3.0"),
    Edit("list grown", "cfg.T[-1]", "T = [2.0]", "cfg.T.append(3.0)"),
    Edit("list in a tuple", "cfg.T[0][0]", "T = ([2.0],)", "cfg.T[0][0] = 3.0"),
    Edit("list in a dict", "cfg.T['a'][0]", "T = {'a': [2.0]}", "cfg.T['a'][0] = 3.0"),
    Edit("dict item", "cfg.T['a']", "T = {'a': 2.0}", "cfg.T['a'] = 3.0"),
    Edit("dict in another order", "[x for x in cfg.T][0]", "T = {2.0: 1, 3.0: 1}", "cfg.T[2.0] = cfg.T.pop(2.0)"),
    Edit("set", "len(cfg.T) * 1.0", "T = {1, 2}", "cfg.T.add(3)"),
    Edit("array element", "float(cfg.T[700])", ARRAY, "cfg.T[700] = 3.0"),
    Edit("object attribute", "cfg.a.s", SLOTS[0], "cfg.a.s = 3.0"),
    Edit("new attribute over a class's", "cfg.a.s", CLASS[0] + "a = A()", "cfg.a.s = 3.0"),
    Edit("attribute of a class", "cfg.A.s", CLASS[0], "cfg.A.s = 3.0"),
    Edit("method of a class", "cfg.A().m()", CLASS[0], "cfg.A.m = lambda self: 3.0"),
    Edit("item of a list constant", "C[0]", "T = [2.0]", "cfg.T[0] = 3.0", const="kern.cfg.T"),
    Edit("element of an array constant", "float(C[700])", ARRAY, "cfg.T[700] = 3.0", const="kern.cfg.T"),
    Edit("defaults of a function", "cfg.f()", DEFAULT[0], "cfg.f.__defaults__ = (3.0,)"),
    Edit("keyword defaults of a function", "cfg.f()", KEYWORD[0], "cfg.f.__kwdefaults__ = {'x': 3.0}"),
    Edit("a keyword default of a function", "cfg.f()", KEYWORD[0], "cfg.f.__kwdefaults__['x'] = 3.0"),
    Edit("code of a function", "cfg.f()", FUNCTION[0], "cfg.f.__code__ = (lambda: 3.0).__code__"),
    Edit("attribute of a function", "cfg.f.s", FUNCTION[0] + "\nf.s = 2.0", "cfg.f.s = 3.0"),
    Edit("item of an attribute of a function", "cfg.f.s[0]", FUNCTION[0] + "\nf.s = [2.0]", "cfg.f.s[0] = 3.0"),
    Edit("new attribute of a function", "getattr(cfg.f, 's', 2.0)", FUNCTION[0], "cfg.f.s = 3.0"),
    Edit("a global of another type", "2.0 if isinstance(cfg.T, bool) else 5.0", "T = 1", "cfg.T = True"),
    Edit("the sign of zero", "cfg.T", "T = 0.0", "cfg.T = -0.0"),
    Edit("a global over a built-in", "abs(-2.0)", "", "kern.abs = lambda x: 3.0"),
    Edit("a global removed", "cfg.S if hasattr(cfg, 'S') else 3.0", "S = 2.0", "del cfg.S"),
]  # fmt: skip
