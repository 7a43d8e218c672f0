import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import type { Plugin } from "vite";

/** Puts the script and the style of a page into it, allowed by their hashes and nothing else, and says its size. */
export function inline(): Plugin {
  return {
    name: "sidelight-inline",
    apply: "build",
    enforce: "post",
    generateBundle(_, bundle) {
      let script = "";
      let style = "";
      let page = "";
      for (const [name, file] of Object.entries(bundle)) {
        if (file.type === "chunk") script += file.code;
        else if (name.endsWith(".css")) style += String(file.source);
        else if (name.endsWith(".html")) page = String(file.source);
        else this.error(`the offline page would need the file ${name}: it must be one file`);
        delete bundle[name];
      }
      if (/<\/script|<!--/i.test(script) || /<\/style/i.test(style)) this.error("the script or the style would end its own element");
      const hash = (text: string) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
      const policy = [
        "default-src 'none'", `script-src ${hash(script)}`, `style-src ${hash(style)}`, "img-src data:", "base-uri 'none'", "form-action 'none'",
        "require-trusted-types-for 'script'", "trusted-types 'none'",
      ].join("; ");
      const whole = page
        .replace(/\s*<script type="module"[^>]*><\/script>/, "")
        .replace(/\s*<link rel="stylesheet"[^>]*>/, "")
        .replace("<!--policy-->", () => `<meta http-equiv="Content-Security-Policy" content="${policy}">`)
        .replace("</head>", () => `<style>${style}</style>\n  </head>`)
        // Behind the profile, so that it is there when the script runs.
        .replace("</body>", () => `<script type="module">${script}</script>\n  </body>`);
      this.emitFile({ type: "asset", fileName: "offline.html", source: whole });
      this.info(`offline.html: ${(gzipSync(whole, { level: 9 }).length / 1000).toFixed(1)} kB compressed with gzip`);
    },
  };
}
