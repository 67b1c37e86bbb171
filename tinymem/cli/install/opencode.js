// Written by `tinymem install opencode`, which overwrites it, and taken away by `tinymem uninstall opencode`.
// Whatever goes wrong here, OpenCode goes on without the memory.
import { execFile } from "node:child_process"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"

const HOOK = [] // the command of the hooks
const PATIENCE = 15_000 // milliseconds

export const Tinymem = async ({ client, directory }) => {
  const parents = new Map() // of each session, its parent's id; a subagent has one
  const owed = new Map() // to a session that was compacted: what it is to read next
  const working = new Set() // what goes on; OpenCode waits for it at its end

  const note = ({ message }) => client.app.log({ body: { service: "tinymem", level: "error", message } })

  const quietly = (run) => (...given) => {
    const done = (async () => run(...given))().catch(note).catch(() => undefined)
    working.add(done)
    return done.finally(() => working.delete(done))
  }

  const ask = async (event, session, details) => {
    const [program, ...options] = HOOK
    const limits = { cwd: directory, timeout: PATIENCE, windowsHide: true }
    const out = await new Promise((resolve, reject) => {
      const ended = (error, said, complaint) => (error ? reject(Error(complaint || error.code)) : resolve(said))
      const child = execFile(program, [event, "--flat", "--greet", ...options], limits, ended)
      child.stdin.on("error", reject)
      child.stdin.end(JSON.stringify({ session_id: session, cwd: directory, ...details }))
    })
    return out && JSON.parse(out).additionalContext
  }

  const withOwed = (session, text) => {
    const texts = [owed.get(session), text].filter(Boolean)
    owed.delete(session)
    return texts.join("\n")
  }

  const get = async (session) => (await client.session.get({ path: { id: session } })).data

  const archive = async (session) => {
    const [info, messages] = [await get(session), (await client.session.messages({ path: { id: session } })).data]
    const said = messages.filter((message) => message.info.role === "user" || message.info.time.completed)
    const folder = await mkdtemp(join(tmpdir(), "tinymem-"))
    try {
      const file = join(folder, `${session}.json`)
      await writeFile(file, JSON.stringify({ info, messages: said }))
      await ask("stop", session, { transcript_path: file })
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  }

  const archiveNewest = quietly(async () => {
    const { data } = await client.session.list()
    const newest = data.find((session) => session.directory === directory && !session.parentID)
    if (newest) await archive(newest.id)
  })
  archiveNewest() // for OpenCode may have been killed

  return {
    "chat.message": quietly(async ({ sessionID }, { message, parts }) => {
      if (!parents.has(sessionID)) parents.set(sessionID, (await get(sessionID)).parentID)
      const typed = parts.filter((part) => part.type === "text" && !part.synthetic)
      if (parents.get(sessionID) || !typed.length) return
      const prompt = typed.map((part) => part.text).join("\n")
      const text = withOwed(sessionID, await ask("prompt", sessionID, { prompt }))
      const id = `${parts.at(-1).id}m` // parts are sorted by id
      if (text) parts.push({ id, sessionID, messageID: message.id, type: "text", text, synthetic: true })
    }),

    "tool.execute.after": quietly(async ({ tool, sessionID, args }, result) => {
      if (typeof result.output !== "string") return // a tool of a server
      const code = tool === "bash" && result.metadata?.exit
      const seen = `${result.output}\nCommand exited with code ${code}`
      const failed = { tool_name: tool, tool_input: args, tool_response: seen }
      const text = withOwed(sessionID, code ? await ask("post-tool-use", sessionID, failed) : "")
      if (text) result.output += `\n\n<system-reminder>\n${text}\n</system-reminder>`
    }),

    "experimental.session.compacting": quietly(async ({ sessionID }) => {
      await archive(sessionID)
      owed.set(sessionID, await ask("session-start", sessionID, { source: "compact" }))
    }),

    event: quietly(async ({ event }) => {
      if (event.type === "session.idle") await archive(event.properties.sessionID)
    }),

    dispose: () => Promise.all(working),
  }
}
