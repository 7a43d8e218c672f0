export function Settings() {
  return <h1>Settings and help</h1>;
}
