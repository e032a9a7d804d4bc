/** The last place at or before `at` that parts no surrogate pair, nor one whose other half may still come. */
export function cutBefore(text: string, at: number): number {
  const end = Math.min(at, text.length);
  const last = text.charCodeAt(end - 1);
  return end > 0 && last >= 0xd800 && last <= 0xdbff ? end - 1 : end;
}
