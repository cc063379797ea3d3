// Who has the session, and what it may do.
// @ts-check

/**
 * `login` where users log in, `logout` where they can end what they began, `csrf` where pages may change something:
 * what requests for that have to have.
 * @typedef {{user: string | null, login: boolean, logout: boolean, csrf: string | null}} Session
 */

/** @type {Session} */
export const session = { user: null, login: false, logout: false, csrf: null };

/** Asks for the session of this browser. It is another one after a login in another tab, or when a proxy has a new token. */
export async function identify() {
  const response = await fetch('/session', { headers: { accept: 'application/json' } });
  if (response.ok) Object.assign(session, await response.json());
  return response;
}
