// The default of an older CommonJS package, as Grafana's modules import it.
import { Scrollbars } from "react-custom-scrollbars-2/lib/index.js";

export default Scrollbars;
