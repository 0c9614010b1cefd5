// Builds the page into ../static: one script and the files from pages. `--out DIR` builds elsewhere,
// `--tests` bundles the unit tests for `node --test`, `--watch` rebuilds after every change.
import { copyFile, mkdir, readFile, readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const root = dirname(fileURLToPath(import.meta.url));
const getArgument = (name) => {
  const index = process.argv.indexOf(name);
  return index < 0 ? undefined : process.argv[index + 1];
};
const out = getArgument("--out") ?? join(root, "..", "static");
const COPIED = ["index.html", "logo.png", "favicon.png", "NOTICE"];

// Styles are bundled as text: the viewer has no route for them, and the content security policy forbids inline styles.
const styles = {
  name: "styles",
  setup(build) {
    build.onLoad({ filter: /\.css$/ }, async ({ path }) => {
      const css = await readFile(path, "utf8");
      const { code } = await esbuild.transform(css, { loader: "css", minify: true, target: "chrome123" });
      return { contents: code, loader: "text" };
    });
  },
};

const common = {
  absWorkingDir: root,
  alias: { "d3-transition": "./src/render/d3Stubs.ts", "d3-interpolate": "./src/render/d3Stubs.ts" },
  bundle: true,
  charset: "utf8",
  jsx: "automatic",
  jsxImportSource: "preact",
  logLevel: "warning",
  plugins: [styles],
};

const page = {
  ...common,
  entryPoints: ["src/main.tsx"],
  outfile: join(out, "app.js"),
  format: "iife",
  minify: true,
  target: ["chrome123", "firefox120", "safari17.5"],
  legalComments: "none", // listed in NOTICE
};

if (process.argv.includes("--tests")) {
  const names = (await readdir(join(root, "tests"))).filter((name) => name.endsWith(".test.ts"));
  await esbuild.build({
    ...common,
    entryPoints: names.map((name) => join("tests", name)),
    outdir: ".tests",
    outExtension: { ".js": ".mjs" },
    format: "esm",
    platform: "node",
    sourcemap: "inline",
  });
} else {
  await mkdir(out, { recursive: true });
  await Promise.all(COPIED.map((name) => copyFile(join(root, "pages", name), join(out, name))));
  if (process.argv.includes("--watch")) await (await esbuild.context(page)).watch();
  else await esbuild.build(page);
}
