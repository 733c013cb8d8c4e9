/** Starts the page. */

import { render } from "preact";
import { App } from "./app";
import "./page.css";

const root = document.getElementById("page");
if (root !== null) {
  root.textContent = "";
  render(<App />, root);
}
