// Who has the session, and what it may do.
// @ts-check

/**
 * `login` where users log in, `logout` where they can end what they began, `csrf` where pages may change something:
 * what requests for that have to have.
 * @typedef {{user: string | null, login: boolean, logout: boolean, csrf: string | null}} Session
 */

/** @type {Session} */
export const session = { user: null, login: false, logout: false, csrf: null };
