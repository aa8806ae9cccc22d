/** The known word that somebody probably meant. Pure. */

const MIN_SIMILARITY = 0.6; // share of the longer word that can stay

/** The most similar known word, ignoring case; "" if none is similar, or if the word itself is known. */
export function nearest(word: string, known: readonly string[]): string {
  if (!word || known.includes(word)) return "";
  const rated = known.map((name) => ({ name, similarity: similarity(word.toLowerCase(), name.toLowerCase()) }));
  rated.sort((a, b) => b.similarity - a.similarity);
  const [best] = rated;
  return best && best.similarity >= MIN_SIMILARITY ? best.name : "";
}

function similarity(a: string, b: string): number {
  return 1 - distance(a, b) / Math.max(a.length, b.length, 1);
}

/** Number of characters to insert, remove or replace. */
function distance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = previous[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(replaced, previous[j]! + 1, row[j - 1]! + 1));
    }
    previous = row;
  }
  return previous[b.length]!;
}
