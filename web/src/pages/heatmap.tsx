export function Heatmap({ turn }: { turn: number }) {
  void turn;
  return <h1>Heatmap</h1>;
}
