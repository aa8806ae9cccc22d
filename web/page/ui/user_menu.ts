/** Who is signed in, in the header: name, role, and the way out. */

import type { User } from "../../protocol/api_types.js";
import { hasSignedIn, signOut } from "./auth.js";
import { byId, setText, setTextAndTitle } from "./dom.js";
import type { Toast } from "./toast.js";

export class UserMenu {
  constructor(toast: Toast) {
    byId("sign-out").addEventListener("click", async () => {
      const error = await signOut();
      if (error) toast.show(`You are still signed in. ${error}`);
    });
  }

  setUser(user: User): void {
    const known = hasSignedIn(user);
    const name = user.label || user.id;
    setTextAndTitle(byId("user-name"), known ? name : "no sign-in");
    setText(byId("user-role"), user.role);
    byId("user").title = known
      ? `Signed in as ${name}, with the role ${user.role}`
      : `livejoin runs without sign-in: everybody has the role ${user.role}`;
    byId("user").hidden = false;
    byId("sign-out").hidden = !known;
  }
}
