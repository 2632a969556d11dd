"""The worked examples of the Hexcute paper."""

from cute_layout import Layout, composition, delinearize, idx2crd

M = Layout(((2, 2), 8), ((1, 16), 2))
F = Layout(((2, 4), (2, 2)), ((8, 1), (4, 16)))
Q_INVERSE = Layout(((8, 4), (2, 4)), ((4, 64), (32, 1)))
G = Layout(((4, 8), (2, 2, 2)), ((32, 1), (16, 8, 256)))


def test_memory_layout_maps_2_4_to_24() -> None:
    assert M(2, 4) == 24


def test_thread_value_layout_maps_2_3_to_1_5() -> None:
    assert idx2crd(F(2, 3), (4, 8)) == (1, 5)
    assert delinearize(F, (4, 8))(2, 3) == (1, 5)


def test_composite_of_ldmatrix() -> None:
    result = composition(G, Q_INVERSE)
    assert str(result) == "((8,(2,2)),(2,4)):((1,(8,256)),(16,32))"
    assert result(17, 5) == 337
    assert idx2crd(337, (16, 32)) == (1, 21)
