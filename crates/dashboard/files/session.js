// Who has the session, and what it may do.
// @ts-check

/**
 * `login` where users log in, `logout` where they can end what they began, `writes` where pages may change something,
 * `csrf`: what requests have to have that send something.
 * @typedef {{user: string | null, login: boolean, logout: boolean, csrf: string, writes: boolean}} Session
 */

/** @type {Session} */
export const session = { user: null, login: false, logout: false, csrf: '', writes: false };

/** Asks for the session of this browser. It is another one after a login in another tab, or when a proxy has a new token. */
export async function identify() {
  const response = await fetch('/session', { headers: { accept: 'application/json' } });
  if (response.ok) Object.assign(session, await response.json());
  return response;
}

/**
 * Sends something as a page of this session.
 * @param {string} path @param {Record<string, any>} body
 * @returns {Promise<{value?: any, failed?: any}>}
 */
export async function post(path, body) {
  try {
    // The session may be another one by now.
    await identify();
    const response = await fetch(path, {
      method: 'POST', headers: { 'content-type': 'application/json', 'x-ironclad-csrf': session.csrf }, body: JSON.stringify(body),
    });
    const text = await response.text();
    const found = response.headers.get('content-type') === 'application/json' ? JSON.parse(text) : { status: response.status, what: text.trim() };
    return response.ok ? { value: found } : { failed: found };
  } catch (error) {
    return { failed: { status: 0, what: 'the program that serves this page does not answer', because: [String(error)] } };
  }
}
