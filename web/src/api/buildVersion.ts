/** What the pages and an answer say they were built as: `0.1.0+1a2b3c4d`; null where they are the same. */
export function otherBuild(own: string, heard: string): { own: string; heard: string } | null {
  if (own === "" || own.startsWith("__") || heard === "" || own === heard) return null;
  const version = (build: string) => build.split("+")[0];
  return version(own) === version(heard) ? { own, heard } : { own: version(own), heard: version(heard) };
}
