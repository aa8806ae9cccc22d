import { bootstrapApplication } from "@angular/platform-browser";
import { App } from "./app";

// signals tell Angular what has changed: no zone.js
bootstrapApplication(App).catch((error: unknown) => console.error(error));
