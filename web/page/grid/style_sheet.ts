/** Style sheets for the shadow roots of the engine's elements. */

export function styleSheet(rules: string): CSSStyleSheet {
  const created = new CSSStyleSheet();
  created.replaceSync(rules);
  return created;
}
