/**
 * Bundles what ngc compiled into dist/. Angular's packages are published partly compiled; its linker completes them
 * here, so that the application contains no template compiler. `ng build` does the same with more packages.
 */

import { cp, readFile, rm } from "node:fs/promises";
import { createEs2015LinkerPlugin } from "@angular/compiler-cli/linker/babel";
import { NodeJSFileSystem, ConsoleLogger, LogLevel } from "@angular/compiler-cli";
import { transformAsync } from "@babel/core";
import { build } from "esbuild";

const linker = createEs2015LinkerPlugin({
  fileSystem: new NodeJSFileSystem(),
  logger: new ConsoleLogger(LogLevel.warn),
  linkerJitMode: false,
});

const angularLinker = {
  name: "angular-linker",
  setup({ onLoad }) {
    onLoad({ filter: /node_modules[\\/]@angular[\\/].*\.mjs$/ }, async ({ path }) => {
      const source = await readFile(path, "utf8");
      if (!source.includes("ɵɵngDeclare")) return { contents: source, loader: "js" };
      const options = { filename: path, plugins: [linker], configFile: false, babelrc: false, compact: false };
      return { contents: (await transformAsync(source, options)).code, loader: "js" };
    });
  },
};

await rm("dist", { recursive: true, force: true });
await build({
  entryPoints: { main: "out/main.js" },
  outdir: "dist",
  bundle: true,
  format: "esm",
  minify: true,
  target: "es2022",
  define: { ngDevMode: "false", ngJitMode: "false", ngI18nClosureMode: "false" },
  plugins: [angularLinker],
});
await cp("public", "dist", { recursive: true });
