/** Says that only one side has it. */
export function Badge({ of: { direction } }: { of: { readonly direction: string } }) {
  return direction === "new" || direction === "gone" ? <> <span class={`badge ${direction}`}>{direction}</span></> : null;
}
