import js from "@eslint/js";
import hooks from "eslint-plugin-react-hooks";
import typescript from "typescript-eslint";
import noForeignNames from "./no_foreign_names.js";

export default typescript.config(
  { ignores: ["built", "node_modules", "src/schema.d.ts"] },
  js.configs.recommended,
  ...typescript.configs.strict,
  {
    plugins: { "react-hooks": hooks },
    rules: { "react-hooks/rules-of-hooks": "error", "react-hooks/exhaustive-deps": "error" },
  },
  {
    files: ["src/**"],
    languageOptions: { parserOptions: { project: "./tsconfig.json" } },
    plugins: { local: { rules: { "no-foreign-names": noForeignNames } } },
    rules: { "local/no-foreign-names": "error", "guard-for-in": "error" },
  },
);
