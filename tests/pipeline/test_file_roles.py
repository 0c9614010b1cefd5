"""Roles of files in common repository layouts."""

from __future__ import annotations

import pytest

from pipeline.file_roles import classify_role

TESTS = [
    "tests/test_client.py",
    "tests/client/utils.py",
    "src/pkg/test_pool.py",
    "pkg/pool_test.py",
    "conftest.py",
    "shop/tests.py",
    "net/http/server_test.go",
    "src/test/java/org/shop/PoolFixture.java",
    "core/src/main/java/org/shop/PoolTest.java",
    "core/src/main/java/org/shop/PoolIT.java",
    "ktor-io/jvm/test/io/BytesSmoke.kt",
    "core/src/commonTest/kotlin/Pool.kt",
    "core/src/jvmTest/kotlin/Pool.kt",
    "app/src/androidInstrumentedTest/kotlin/Pool.kt",
    "okio/src/commonMain/kotlin/BufferTests.kt",
    "ktor-client/ktor-client-tests/common/src/Pool.kt",
    "web/__tests__/pool.js",
    "web/__mocks__/fs.js",
    "web/pool.spec.ts",
    "web/pool.test.tsx",
    "web/pool-test.js",
    "spec/models/user.rb",
    "lib/user_spec.rb",
    "t/basic.pl",
    "pandas/testing/frames.py",
    "crates/core/benches/scan.rs",
    "tokio/tests.rs",
    "Shop.Tests/Pool.cs",
    "web/pool.specimen.test.mjs",
    "tests/data/answer.json",
    "plugin/test-fixtures/Settings.kt",
    "plugin/testData/Classes.kt",
    "lib/src/testFixtures/java/Pool.java",
    "tests/README.md",
]

SOURCE = [
    "httpx/_client.py",
    "src/main/java/org/shop/Pool.java",
    "okio/src/commonMain/kotlin/Buffer.kt",
    "ktor-server/ktor-server-test-host/src/Engine.kt",
    "src/latest.py",
    "src/contest/rank.py",
    "app/attest.go",
    "lib/Latest.java",
    "starlette/testclient.py",
    "src/testable.rs",
    "cmd/serve/main.go",
    "db/migrate/001.sql",
    "scripts/release.sh",
    "ui/App.vue",
    "src/core/PodSpec.java",
    "src/core/pod_spec.py",
    "shop/tasks.py",
]

PROSE = ["README.md", "CHANGELOG.md", "docs/guide.rst", "docs/conf.py", "docs/examples/app.py", "NEWS.txt"]

OTHER = [
    "setup.py",
    "pkg/__version__.py",
    "pkg/_version.py",
    "lib/version.rb",
    "noxfile.py",
    "pyproject.toml",
    "requirements.txt",
    ".github/workflows/ci.yml",
    "uv.lock",
    "package-lock.json",
    "core/api/core.api",
    "build.gradle",
    "build.gradle.kts",
    "Makefile",
    "CMakeLists.txt",
    "vite.config.ts",
    "api/shop_pb2.pyi",
    "logo.png",
    "Dockerfile",
]


@pytest.mark.parametrize("path", TESTS)
def test_tests(path: str) -> None:
    """Tests are recognized by directories and file names, by the conventions of each language."""
    assert classify_role(path) == "tests"


@pytest.mark.parametrize("path", SOURCE)
def test_source(path: str) -> None:
    """All other code is source, even if a name contains `test`, `spec` or `version`."""
    assert classify_role(path) == "source"


@pytest.mark.parametrize("path", PROSE)
def test_prose(path: str) -> None:
    """Prose is documentation, including code in its directories."""
    assert classify_role(path) == "prose"


@pytest.mark.parametrize("path", OTHER)
def test_other(path: str) -> None:
    """Build files, configuration, generated files and data have the role `other`."""
    assert classify_role(path) == "other"
