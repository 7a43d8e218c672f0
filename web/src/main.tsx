import { render } from "preact";
import { askAhead } from "./ahead.ts";
import { App } from "./app.tsx";
import { followHistory } from "./location.ts";
import "./styles/tokens.css";
import "./styles/page.css";
import "./styles/parts.css";
import "./styles/flame.css";
import "./styles/captures.css";
import "./styles/heatmap.css";
import "./styles/depth.css";
import "./styles/lenses.css";
import "./styles/services.css";
import "./styles/states.css";

askAhead();
followHistory();
render(<App />, document.getElementById("app") as HTMLElement);
