export function Capture({ turn }: { turn: number }) {
  void turn;
  return <h1>Capture</h1>;
}
