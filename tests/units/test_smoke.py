import bidual as bd


def test_version():
    assert bd.__version__
