/** A button to the group, rollout or step beside this one; `address` is null where there is none. */
export function Near({ word, address }: { word: string; address: string | null }) {
  return address === null ? (
    <button type="button" class="button" disabled>
      {word}
    </button>
  ) : (
    <a class="button" href={address}>
      {word}
    </a>
  );
}
