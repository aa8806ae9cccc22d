/** Who is signed in, in the header: name, role, and the way out. */
import { hasSignedIn, signOut } from "./auth.js";
import { byId, setText, setTextAndTitle } from "./dom.js";
export class UserMenu {
    constructor(toast) {
        byId("sign-out").addEventListener("click", async () => {
            const error = await signOut();
            if (error)
                toast.show(`You are still signed in. ${error}`);
        });
    }
    setUser(user) {
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
