/** Says that only one side has it. */
export function Badge({ change: { direction } }: { change: { readonly direction: string } }) {
  return direction === "new" || direction === "removed" ? <> <span class={`badge ${direction}`}>{direction}</span></> : null;
}
