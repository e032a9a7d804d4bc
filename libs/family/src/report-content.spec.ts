import { describe, expect, it } from '@jest/globals';
import { reportContent } from './report-content.js';

const child = { sessionId: 'kid', turnId: 'c~1', generation: 1 };

describe('a report', () => {
  it('names the child, says how it came out, and repeats its last words', () => {
    const { content, text } = reportContent(child, { state: 'completed', text: 'all is well' });
    expect(content).toBe('Sub-agent kid/c~1 completed.\nall is well');
    expect(text).toBe('all is well');
  });

  it('is one line where there were no words', () => {
    expect(reportContent(child, { state: 'stopped', text: '' })).toEqual({
      content: 'Sub-agent kid/c~1 stopped.',
      text: '',
    });
  });

  it('repeats no more than a long text’s beginning, and says where the rest stands', () => {
    const { content, text } = reportContent(child, { state: 'failed', text: 'x'.repeat(40_000) });
    expect(text).toBe('x'.repeat(32_768));
    expect(content).toBe(`Sub-agent kid/c~1 failed.\n${text}\n(cut: the rest stands in its session)`);
  });

  it('cuts no character in two', () => {
    const { text } = reportContent(child, { state: 'completed', text: `${'x'.repeat(32_767)}🧈` });
    expect(text).toBe('x'.repeat(32_767));
  });

  it('keeps what is whole, to the last character', () => {
    const words = `${'x'.repeat(32_766)}🧈`;
    const { content, text } = reportContent(child, { state: 'completed', text: words });
    expect(text).toBe(words);
    expect(content).not.toContain('cut');
  });

  it('is well-formed, whatever the child said', () => {
    expect(reportContent(child, { state: 'completed', text: 'a\ud800b' }).text).toBe('a\ufffdb');
  });
});
