import { defineConfig } from "vite";

/** Relative addresses, so that the page works behind any path prefix; `built` is committed and served by the service. */
export default defineConfig({
  base: "./",
  build: { outDir: "built", emptyOutDir: true, target: "es2022", modulePreload: false, reportCompressedSize: false },
});
