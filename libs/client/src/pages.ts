interface Page<A> {
  nextAfter: A | null;
  hasMore: boolean;
}

/** One page after the other, each read when it is asked for, from behind `after` to the last. */
export async function* pages<A, P extends Page<A>>(
  read: (after: A | undefined) => Promise<P>,
  after: A | undefined,
): AsyncGenerator<P, void, undefined> {
  for (let cursor = after; ;) {
    const page = await read(cursor);
    yield page;
    if (!page.hasMore || page.nextAfter === null) return;
    cursor = page.nextAfter;
  }
}
