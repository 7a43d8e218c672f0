import { useEffect } from "preact/hooks";

/** Calls `take` with files that are dropped anywhere on the page. */
export function useFileDrop(take: (files: readonly File[]) => void): void {
  useEffect(() => {
    const hover = (event: DragEvent) => { if (event.dataTransfer?.types.includes("Files")) event.preventDefault(); };
    const drop = (event: DragEvent) => {
      const files = [...(event.dataTransfer?.files ?? [])];
      if (files.length === 0) return;
      event.preventDefault();
      take(files);
    };
    document.addEventListener("dragover", hover);
    document.addEventListener("drop", drop);
    return () => {
      document.removeEventListener("dragover", hover);
      document.removeEventListener("drop", drop);
    };
  });
}
