/** The button below a list of which only a part is shown. */
export function ShowMore({ left, onMore }: { readonly left: number; readonly onMore: () => void }) {
  return left <= 0 ? null : (
    <button type="button" onClick={onMore}>
      Show more of {left}
    </button>
  );
}
