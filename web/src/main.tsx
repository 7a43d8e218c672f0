import { render } from "preact";
import { App } from "./app.tsx";
import { followHistory } from "./location.ts";
import "./styles/tokens.css";
import "./styles/page.css";
import "./styles/parts.css";
import "./styles/flame.css";

followHistory();
render(<App />, document.getElementById("app") as HTMLElement);
