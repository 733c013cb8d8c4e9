/** The page: its views by address, and the token of this tab. */

import { useState } from "preact/hooks";
import { isToken, token } from "./api";
import { Ask } from "./ask/ask";
import { Fleet } from "./fleet/fleet";
import { lazyView } from "./lazy";
import { Rules } from "./rules/rules";
import { giveToken } from "./token";

const Edit = lazyView(async () => (await import("./edit/edit")).Edit);
const VIEWS = [
  { path: "", name: "Ask", view: Ask },
  { path: "rules", name: "Rules", view: Rules },
  { path: "edit", name: "Edit", view: Edit },
  { path: "fleet", name: "Fleet", view: Fleet },
] as const;

/** Why a text is no token, without what may be a part of one. */
function faultOf(text: string): string {
  const found = [...text].find((character) => !isToken(character)) ?? "";
  const code = (found.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
  return `Expected letters, digits and signs of ASCII, got the character U+${code}. Copy the token again without it.`;
}

function TokenForm() {
  const [has, setHas] = useState(token() !== "");
  const [fault, setFault] = useState("");
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const data = new FormData(form).get("token");
    const given = typeof data === "string" ? data.trim() : "";
    const isLegal = given === "" || isToken(given);
    setFault(isLegal ? "" : faultOf(given));
    if (!isLegal) return;
    giveToken(given);
    setHas(token() !== "");
    form.reset();
    form.closest("details")?.removeAttribute("open");
  };
  return (
    <details class="token">
      <summary>{has ? "Token given" : "Token"}</summary>
      <form onSubmit={submit}>
        <label>
          Token <input name="token" type="password" autocomplete="off" />
        </label>
        <button type="submit">Keep in this tab</button>
        {fault !== "" && <p role="alert">{fault}</p>}
        <p>It is sent to this service only, and forgotten when the tab is closed. An empty one removes it.</p>
      </form>
    </details>
  );
}

export function App() {
  const name = location.pathname.slice(location.pathname.lastIndexOf("/") + 1);
  const current = VIEWS.find((each) => each.path === name) ?? VIEWS[0];
  const View = current.view;
  return (
    <>
      <header>
        <a class="title" href="./">
          Runner Policy
        </a>
        <nav aria-label="Views">
          {VIEWS.map((each) => (
            <a key={each.path} href={`./${each.path}`} aria-current={each === current ? "page" : undefined}>
              {each.name}
            </a>
          ))}
          <a href="./docs">API</a>
        </nav>
        <TokenForm />
      </header>
      <View />
    </>
  );
}
