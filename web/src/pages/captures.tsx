export function Captures({ turn }: { turn: number }) {
  void turn;
  return <h1>Captures</h1>;
}
