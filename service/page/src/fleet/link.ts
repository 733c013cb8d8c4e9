/** Keeps a state in the address's fragment. A deployment that is opened is a step back in the browser's history. */

import { useEffect, useRef } from "preact/hooks";
import { decoded, encoded } from "../fragment";

const WAIT = 300;

/**
 * Calls `onRead` with the state of the address at the start and whenever the user goes back or forth, and writes
 * `state` into the address some time after it changed; another `page` at once, and as a new step.
 */
export function useLink(
  state: object | null,
  short: object,
  page: string | number,
  onRead: (state: unknown) => void,
): void {
  const read = useRef(onRead);
  read.current = onRead;
  const isRead = useRef(false);
  const shownPage = useRef(page);
  const written = useRef("");
  useEffect(() => {
    const load = (): void => {
      const fragment = location.hash.slice(1);
      if (isRead.current && fragment === written.current) return;
      const found = fragment === "" ? Promise.resolve(null) : decoded(fragment);
      found.then(
        (value) => {
          isRead.current = true;
          written.current = fragment;
          read.current(value);
        },
        () => undefined,
      );
    };
    load();
    addEventListener("popstate", load);
    return () => {
      removeEventListener("popstate", load);
    };
  }, []);
  useEffect(() => {
    if (!isRead.current) return undefined;
    const isStep = page !== shownPage.current;
    let isCurrent = true;
    const write = async (): Promise<void> => {
      const whole = state === null ? "" : Object.keys(state).length === 0 ? "" : await encoded(state);
      const found = whole !== "" || Object.keys(short).length === 0 ? whole : await encoded(short);
      if (!isCurrent) return;
      shownPage.current = page;
      if (found === written.current) return;
      written.current = found;
      const address = found === "" ? location.pathname + location.search : `#${found}`;
      if (isStep) history.pushState(null, "", address);
      else history.replaceState(null, "", address);
    };
    const timer = setTimeout(
      () => {
        write().catch(() => undefined);
      },
      isStep ? 0 : WAIT,
    );
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [state, short, page]);
}
