// Builds the page into ../static: one script, and the files that stand beside it. `--out DIR` builds elsewhere,
// `--tests` bundles the unit tests for `node --test`, `--watch` builds again at each change.
import { copyFile, mkdir, readFile, readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const argument = (name) => {
  const place = process.argv.indexOf(name);
  return place < 0 ? undefined : process.argv[place + 1];
};
const out = argument("--out") ?? join(here, "..", "static");
const COPIED = ["index.html", "logo.png", "favicon.png", "NOTICE"];

// Styles travel inside the script: the page has no route for them, and its policy allows none in the document.
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
  absWorkingDir: here,
  alias: { "d3-transition": "./src/render/still.ts", "d3-interpolate": "./src/render/still.ts" },
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
  legalComments: "none", // NOTICE has them
};

if (process.argv.includes("--tests")) {
  const names = (await readdir(join(here, "tests"))).filter((name) => name.endsWith(".test.ts"));
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
  await Promise.all(COPIED.map((name) => copyFile(join(here, "pages", name), join(out, name))));
  if (process.argv.includes("--watch")) await (await esbuild.context(page)).watch();
  else await esbuild.build(page);
}
