/** What the service answers to a value that changes. Owns when it is asked, and that an outdated answer is dropped. */

import { useEffect, useMemo, useState } from "preact/hooks";
import type { Answer, Problem } from "./api";
import { useTokenChanges } from "./token";

const NOT_ASKED: Problem = { title: "The page has failed", detail: "It cannot ask about this. Load it again." };

/** The answer to a value, asked `wait` milliseconds after it changed, and whether it is awaited; the last one stays. Another
 * `attempt` or token asks again. */
export function useAnswer<T>(
  ask: ((signal: AbortSignal) => Promise<Answer<T>>) | null,
  wait: number,
  attempt = 0,
): [Answer<T> | null, boolean] {
  const tokens = useTokenChanges();
  const question = useMemo(() => ({ ask, attempt, tokens }), [ask, attempt, tokens]);
  const [found, setFound] = useState<{ readonly question: object; readonly answer: Answer<T> } | null>(null);
  useEffect(() => {
    if (question.ask === null) {
      setFound(null);
      return undefined;
    }
    const control = new AbortController();
    const timer = setTimeout(() => {
      question.ask?.(control.signal).then(
        (answer) => {
          if (!control.signal.aborted) setFound({ question, answer });
        },
        () => {
          if (!control.signal.aborted) setFound({ question, answer: { problem: NOT_ASKED } });
        },
      );
    }, wait);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [question, wait]);
  return [ask === null ? null : (found?.answer ?? null), ask !== null && found?.question !== question];
}

/** A value that has been the same for `wait` milliseconds, or the one before; `isAtOnce` takes it over without waiting. */
export function useSettled<T>(value: T, wait: number, isAtOnce: boolean): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    if (Object.is(settled, value)) return undefined;
    const timer = setTimeout(
      () => {
        setSettled(value);
      },
      isAtOnce ? 0 : wait,
    );
    return () => {
      clearTimeout(timer);
    };
  }, [value, settled, wait, isAtOnce]);
  return settled;
}
