/** What the pages and an answer say they were built as: `0.1.0+1a2b3c4d`; null where they are the same. */
export function findBuildMismatch(loaded: string, served: string): { loaded: string; served: string } | null {
  if (loaded === "" || loaded.startsWith("__") || served === "" || loaded === served) return null;
  const version = (build: string) => build.split("+")[0];
  return version(loaded) === version(served) ? { loaded, served } : { loaded: version(loaded), served: version(served) };
}
