/** A sentence in which what is between backticks is code. */

export function Prose({ text }: { readonly text: string }) {
  return <>{text.split("`").map((part, n) => (n % 2 === 1 ? <code key={n}>{part}</code> : part))}</>;
}
