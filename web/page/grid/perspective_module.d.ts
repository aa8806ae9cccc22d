/** The engine's own module, out of the installed wheel. */
declare module "*/perspective-anywidget.js" {
  export const ready: Promise<unknown>;
  export function worker(): Promise<import("./perspective.js").Engine>;
}
