"""What is shipped is what was tested: build the wheel, install it elsewhere, run its command there."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet", "-w", folder, ROOT]
    subprocess.run(command, check=True, capture_output=True)
    (path,) = folder.glob("bidual-*.whl")
    return path


def test_the_wheel_holds_every_module_and_nothing_else(wheel):
    sources = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")} | {"bidual/py.typed"}
    shipped = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert shipped == sources


def test_the_installed_wheel_works_elsewhere(wheel, tmp_path):
    site = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--quiet", "--target", site, wheel]
    subprocess.run(install, check=True, capture_output=True)
    env = {**os.environ, "PYTHONPATH": str(site)}
    where = subprocess.run(
        [sys.executable, "-c", "import bidual; print(bidual.__file__)"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
    )
    assert where.stdout.startswith(str(site))
    process = subprocess.run(
        [sys.executable, site / "bin" / "bidual", "solve", "media"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    assert "6.746704" in process.stdout
