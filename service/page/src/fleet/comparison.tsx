/** Which releases are compared, for deployments that the service decides. */

/**
 * `from` is empty for what each image says; `isWhole`: also each release between; `isExplained`: with what helps in the
 * last release.
 */
export interface Comparison {
  readonly from: string;
  readonly to: string;
  readonly isWhole: boolean;
  readonly isExplained: boolean;
}
export const NEWEST: Comparison = { from: "", to: "", isWhole: false, isExplained: false };
const V1_REMOVED = "v1-removed";

/** The fields of the request for an impact; `releases` are the known ones, oldest first. */
export function fieldsOf(comparison: Comparison, releases: readonly string[]): Readonly<Record<string, unknown>> {
  const compared = comparedOf(comparison, releases);
  return comparison.isExplained ? { ...compared, explain: true } : compared;
}

function comparedOf(comparison: Comparison, releases: readonly string[]): Readonly<Record<string, unknown>> {
  if (releases.length === 0 && comparison.to === "") return {};
  const newest = releases.at(-1) ?? "";
  const to = comparison.to === "" ? newest : comparison.to;
  if (comparison.from === "") return { to };
  if (!comparison.isWhole || isDescending(comparison, releases)) return { from: comparison.from, to };
  const [first, last] = [releases.indexOf(comparison.from), releases.indexOf(to === V1_REMOVED ? newest : to)];
  const between = releases.slice(Math.min(first, last), Math.max(first, last) + 1);
  return { releases: to === V1_REMOVED ? [...between, to] : between };
}

/** Whether the release to go to is earlier: those between are compared the earliest first, as an upgrade. */
function isDescending({ from, to }: Comparison, releases: readonly string[]): boolean {
  return releases.includes(to) && releases.indexOf(to) < releases.indexOf(from);
}

export function ComparisonForm(properties: {
  readonly comparison: Comparison;
  readonly releases: readonly string[];
  readonly onComparison: (comparison: Comparison) => void;
}) {
  const { comparison, releases, onComparison } = properties;
  const newest = [...releases].reverse();
  const hasBetween = comparison.from !== "" && !isDescending(comparison, releases);
  return (
    <>
      <span class="field">
        <label for="fleet-from">from</label>{" "}
        <select
          id="fleet-from"
          value={comparison.from}
          onChange={(event) => {
            onComparison({ ...comparison, from: event.currentTarget.value });
          }}
        >
          <option value="">what each image says</option>
          {newest.map((release) => (
            <option key={release} value={release}>
              {release}
            </option>
          ))}
        </select>
      </span>
      <span class="field">
        <label for="fleet-to">to</label>{" "}
        <select
          id="fleet-to"
          value={comparison.to}
          onChange={(event) => {
            onComparison({ ...comparison, to: event.currentTarget.value });
          }}
        >
          <option value="">the newest</option>
          <option value={V1_REMOVED}>the newest without V1</option>
          {newest.map((release) => (
            <option key={release} value={release}>
              {release}
            </option>
          ))}
        </select>
      </span>
      <label>
        <input
          type="checkbox"
          checked={comparison.isWhole && hasBetween}
          disabled={!hasBetween}
          onChange={(event) => {
            onComparison({ ...comparison, isWhole: event.currentTarget.checked });
          }}
        />{" "}
        each release between
      </label>
      <label>
        <input
          type="checkbox"
          checked={comparison.isExplained}
          onChange={(event) => {
            onComparison({ ...comparison, isExplained: event.currentTarget.checked });
          }}
        />{" "}
        what helps
      </label>
    </>
  );
}
